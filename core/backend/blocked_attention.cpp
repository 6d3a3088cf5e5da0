#include <tandem/core/backend/blocked_attention.h>

namespace tandem {

AnnexList<BlockedAttentionKernel>& blocked_attention_kernels() {
  static AnnexList<BlockedAttentionKernel> kernels(add_core_annexes);
  return kernels;
}

}  // namespace tandem
