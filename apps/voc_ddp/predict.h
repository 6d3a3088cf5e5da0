// voc_ddp predict IMAGE... --weights FILE --output DIR
#pragma once

namespace voc {

// Runs the command `predict` and returns the exit code. argv[0] is the word "predict".
int predict_main(int argc, const char* const* argv);

}  // namespace voc
