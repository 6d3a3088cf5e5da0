// A file for nvcc, compiled for the emulated GPU.
#define TANDEM_RULES_ON_GPU
#include "conformance/own_rule_test.cu"
