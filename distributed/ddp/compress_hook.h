// compress_hook: gradients travel in 16 bits. finish_with is for hooks that compute with what has arrived.
#pragma once

#include <tandem/distributed/ddp/communication_hooks.h>

#include <functional>
#include <memory>

namespace tandem::distributed {

// Returns a Work that waits for `work` and then runs `finish`: once, in the first wait(), on the thread that waits.
std::shared_ptr<Work> finish_with(std::shared_ptr<Work> work, std::function<void()> finish);

// Sends 16 bits for each number, half of f32: the buffer is rounded to `dtype` (bf16 or f16), averaged and
// converted back. bf16 keeps the range of f32 with 8 bits of precision; f16 has 11 bits and overflows above
// 65504.
CommunicationHook compress_hook(DType dtype);

}  // namespace tandem::distributed
