"""Recorded gains of Dr on data like yours."""
