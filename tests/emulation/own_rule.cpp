// Compiles a file for nvcc for the emulated GPU.
#include "conformance/own_rule_test.cu"
