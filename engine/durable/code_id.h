// SPDX-License-Identifier: Apache-2.0
// Which kernels this process has, so that what is known of the kernels of another build is not believed of them.
#ifndef VICINAL_ENGINE_DURABLE_CODE_ID_H_
#define VICINAL_ENGINE_DURABLE_CODE_ID_H_

#include <string>

namespace vicinal::durable {

// Of the engine's library and of a loaded backend's: it changes with their code, and is the same in every process that
// loads the same files. Empty if the linker gave them no build ids.
std::string CodeId();

}  // namespace vicinal::durable

#endif  // VICINAL_ENGINE_DURABLE_CODE_ID_H_
