"""Learned judgements: small linear models on the local embedder's vectors and a few features of the words.

Pure: nothing here reads or writes but the packaged weights file. :mod:`engine.heads.local` is where the
service gets its own.
"""
