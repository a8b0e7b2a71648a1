"""Tests of the pure logic of declared stores."""
