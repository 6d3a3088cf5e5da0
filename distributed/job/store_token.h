// The token of a job's store: the secret that its processes prove to know to each other (SECURITY.md).
#pragma once

#include <functional>
#include <string>

namespace tandem::distributed {

// The user's token: TANDEM_STORE_TOKEN, else the text of the file that TANDEM_STORE_TOKEN_FILE names. Empty when
// neither is set. `variable` is getenv or, in tests, a function like it (null: not set). Error when the file is not
// this user's alone (mode 0600), is empty or cannot be read.
std::string given_token(const std::function<const char*(const char*)>& variable);
std::string given_token();

// The token of a job whose processes are all on this host, and of one user. It is made of the job's name and of a
// secret of this user, which the first process to ask writes to a file: tandem/secret in XDG_RUNTIME_DIR if that is a
// folder of this user's, or /tmp/tandem-UID/secret where that is not set. Error when others could have written the
// file.
std::string host_token(const std::string& job);

// Error: a job on several hosts has no token, and was not told that it needs none.
[[noreturn]] void fail_without_token();

}  // namespace tandem::distributed
