// Stands in for the instruction sets that this build does not have: those of another architecture, and those that the
// compiler does not know (setup.py defines the macros).
#include "kernels.h"

namespace clearhead {

#ifdef CLEARHEAD_WITHOUT_AVX512
const Kernels<float>* avx512_kernels() { return nullptr; }
#endif

#ifdef CLEARHEAD_WITHOUT_AVX2
const Kernels<float>* avx2_kernels() { return nullptr; }
#endif

}  // namespace clearhead
