// All inner products of sparse rows, as a sum over columns of the products of their entries.
//
// The entries of a column are few and stand together, so that they are read once; row by row, each of them would be
// read again for every row that shares the column, which takes five times as long.
#pragma once

#include <algorithm>

#include "core.hpp"
#include "parallel.hpp"
#include "status.hpp"

namespace representer {
namespace REPRESENTER_ISA {

template <class Real> int sparse_gram(const RepresenterColumns& p) {
    const Real* values = static_cast<const Real*>(p.values);
    Real* gram = static_cast<Real*>(p.gram);
    std::fill(gram, gram + p.rows * p.rows, Real(0));
    const int64_t team = std::max<int64_t>(1, p.threads);
    parallel_for(team, team, [&](int64_t thread) {
        for (int64_t c = 0; c < p.columns; ++c) {
            const int64_t end = p.starts[c + 1];
            for (int64_t e = p.starts[c]; e < end; ++e) {
                const int64_t i = p.indices[e];
                if (i % team != thread) continue;
                const Real value = values[e];
                for (int64_t f = e; f < end; ++f) gram[i * p.rows + p.indices[f]] += value * values[f];
            }
        }
    });
    parallel_for(p.rows, p.threads, [&](int64_t i) {
        for (int64_t j = 0; j < i; ++j) gram[i * p.rows + j] = gram[j * p.rows + i];
    });
    return OK;
}

}  // namespace REPRESENTER_ISA
}  // namespace representer
