// A file for nvcc, compiled for the emulated GPU.
#include "conformance/own_rule_test.cu"
