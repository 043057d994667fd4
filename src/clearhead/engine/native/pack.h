// Weights into the panels that `Kernels::product` reads; the same for every instruction set.
#pragma once

#include "kernels.h"

namespace clearhead {

// Bytes of `words` for a matrix of this kind and size.
size_t packed_bytes(Kind kind, int out, int in);

// Packs `weight` [out, in] (float, or double for f64), rows `in` apart. int8: of each row n scale = amax/127 and q =
// round(w·(127/amax)), ties to even, into `scales` and `offsets` [panels·PANEL]; a row of zeros has scale 0. Returns
// false if a weight is not finite.
bool pack(Kind kind, const void* weight, int out, int in, void* words, float* scales, int32_t* offsets);

}  // namespace clearhead
