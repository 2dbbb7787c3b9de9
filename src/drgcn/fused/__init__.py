"""The arithmetic of the Dr block on CUDA: few kernels instead of many small ones."""
