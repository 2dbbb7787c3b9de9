"""The paper's formulas, written slowly and literally, for the fast code to be compared with.

The paper has nodes as columns; everywhere here nodes are rows.
"""
