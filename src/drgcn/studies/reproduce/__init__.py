"""Reproduction of the tables of the paper: plan, jobs, backends and progress."""
