// What the two files of AVX-512 share.
#pragma once

#include "kernels.h"

namespace clearhead {

// `Kernels::product` of bf16 by the processor's own instruction; not there where the compiler does not know it.
__attribute__((weak)) void avx512_product_halves(const Matrix<float>& matrix, const void* words, size_t stride,
                                                 int rows, float* y, size_t y_stride, int first, int last, bool relu);

}  // namespace clearhead
