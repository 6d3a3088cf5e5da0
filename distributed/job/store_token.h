// The token of a job's store: a secret. The job's processes prove to each other that they know it (SECURITY.md).
#pragma once

#include <cstdlib>
#include <functional>
#include <string>

namespace tandem::distributed {

// Returns the user's token: TANDEM_STORE_TOKEN, or else the text of the file TANDEM_STORE_TOKEN_FILE. Empty if neither
// is set. `variable` is getenv or, in tests, a similar function that returns null for a variable that is not set.
// Throws an Error if other users can access the file (its mode must be 0600), or if it is empty or can't be read.
std::string given_token(const std::function<const char*(const char*)>& variable = ::getenv);

// Returns the token of a job whose processes all run on this host, as one user. The token is computed from the job's
// name and a secret of this user. The first process that needs the secret writes it to a file: tandem/secret in
// XDG_RUNTIME_DIR if that is a folder of this user, else /tmp/tandem-UID/secret. Throws an Error if other users could
// have written the file.
std::string host_token(const std::string& job);

// Throws the Error for a job on several hosts that has no token and does not use --open-store.
[[noreturn]] void fail_without_token();

}  // namespace tandem::distributed
