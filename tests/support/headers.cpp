// Empty on purpose: the target of this file precompiles the headers of all test programs.
