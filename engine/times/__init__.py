"""Times in words, in Chinese and English, with three policies.

Appointments are read as what is to come (:mod:`engine.times.readings`, :mod:`engine.times.readings`), questions as what has been
(:mod:`engine.times.past`), messages by the day they were said on (:mod:`engine.times.past`); all from one
:mod:`engine.times.clocks`.
"""
