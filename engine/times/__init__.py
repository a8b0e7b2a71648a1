"""Times in words, in Chinese and English, with three policies.

Appointments are read as what is to come (:mod:`engine.times.readings`), questions as what has been, messages
by the day they were said on (both :mod:`engine.times.past`); all from one lexicon
(:mod:`engine.times.clocks`).
"""
