// compress_hook: sends gradients in 16 bits. finish_with() is for hooks that compute with received numbers.
#pragma once

#include <tandem/distributed/ddp/communication_hooks.h>

#include <functional>
#include <memory>

namespace tandem::distributed {

// Returns a Work that waits for `work` and then calls `finish` once, in the first wait(), on the waiting thread.
std::shared_ptr<Work> finish_with(std::shared_ptr<Work> work, std::function<void()> finish);

// Sends 16 bits for each number, half the size of f32. The hook rounds the buffer to `dtype` (bf16 or f16), averages it
// and converts it back. bf16 has the range of f32 with 8 bits of precision. f16 has 11 bits of precision and overflows
// above 65504.
CommunicationHook compress_hook(DType dtype);

}  // namespace tandem::distributed
