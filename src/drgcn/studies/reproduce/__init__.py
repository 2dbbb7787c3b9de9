"""Every table of the paper trained anew: what there is to run, and the running of it."""
