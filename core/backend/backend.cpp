#include <tandem/core/backend/backend.h>

namespace tandem {

Backend& backend(Device device) { return static_cast<Backend&>(device_memory(device)); }

}  // namespace tandem
