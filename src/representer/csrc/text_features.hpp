// Features of texts: counts of n-grams, damped, weighted and scaled to length 1, as rows of a sparse matrix.
//
// The order of the entries, and of all sums, is that of the sparse matrices of kernels/text_kernel.py, so that the
// features are the same to the last bit: n-grams of a text itself ascend; those of a sum of sequences, such as the
// characters of its words, stand in the reverse of the order in which they first occur.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "core.hpp"

namespace representer {
namespace REPRESENTER_ISA {

struct Counted {
    int32_t column, count;
};

// The position of a code among those of an order, -1 if it is not there: Knuth's hash, open addressing.
inline int32_t position(const RepresenterNgrams& view, int64_t n, int64_t code) {
    const int64_t bits = view.bits[n], *codes = view.codes[n];
    const int32_t* table = view.tables[n];
    uint64_t slot = uint64_t(code) * 0x9E3779B97F4A7C15u >> (64 - bits);
    const uint64_t last = (uint64_t(1) << bits) - 1;
    for (int32_t held; (held = table[slot]) >= 0; slot = (slot + 1) & last)
        if (codes[held] == code) return held;
    return -1;
}

// Append the n-grams of a sequence that have a column, ascending, with their counts.
inline void count_ngrams(const RepresenterNgrams& view, int64_t sequence, std::vector<int32_t>& columns, std::vector<Counted>& to) {
    const int64_t* ids = view.ids + view.starts[sequence];
    const int64_t T = view.starts[sequence + 1] - view.starts[sequence];
    for (int64_t n = 0; n < view.orders; ++n) {
        if (view.columns[n] == view.columns[n + 1]) continue;
        const int64_t length = view.lengths[n];
        columns.clear();
        for (int64_t t = 0; t + length <= T; ++t) {
            int64_t code = 0;
            bool is_fine = true;
            for (int64_t k = 0; k < length && is_fine; ++k) {
                const int64_t id = ids[t + k];
                is_fine = id >= 0 && !(id == view.boundary && k > 0 && k < length - 1);
                code = code * view.base + id;
            }
            if (!is_fine) continue;
            const int32_t found = position(view, n, code);
            if (found >= 0) columns.push_back(int32_t(view.columns[n]) + found);
        }
        std::sort(columns.begin(), columns.end());
        for (size_t i = 0; i < columns.size(); ++i) {
            if (i && columns[i] == columns[i - 1]) ++to.back().count;
            else to.push_back({columns[i], 1});
        }
    }
}

// The sum of squares as NumPy adds them up: pairs of halves down to 128 numbers, of which eight sums are made.
inline double pairwise_sum(const double* x, int64_t n) {
    if (n < 8) {
        double total = 0;
        for (int64_t i = 0; i < n; ++i) total += x[i];
        return total;
    }
    if (n > 128) {
        const int64_t half = n / 2 - n / 2 % 8;
        return pairwise_sum(x, half) + pairwise_sum(x + half, n - half);
    }
    double r[8];
    for (int k = 0; k < 8; ++k) r[k] = x[k];
    int64_t i = 8;
    for (; i + 8 <= n; i += 8)
        for (int k = 0; k < 8; ++k) r[k] += x[i + k];
    double total = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
    for (; i < n; ++i) total += x[i];
    return total;
}

// Appends the rows of a view to those of the views before it.
class TextView {
    const RepresenterNgrams& view;
    std::vector<int32_t> columns;    // of one order
    std::vector<Counted> of_words;   // of every sequence, if they are summed
    std::vector<int64_t> word_ends;
    std::vector<int32_t> totals;     // of each column in a text, 0 between texts
    std::vector<Counted> row;

  public:
    explicit TextView(const RepresenterNgrams& given) : view(given) {
        if (!view.summed) return;
        word_ends.push_back(0);
        for (int64_t s = 0; s < view.sequences; ++s) {
            count_ngrams(view, s, columns, of_words);
            word_ends.push_back(int64_t(of_words.size()));
        }
        totals.assign(view.features, 0);
    }

    const std::vector<Counted>& counts(int64_t first, int64_t last, int64_t text) {
        row.clear();
        if (!view.summed) {
            count_ngrams(view, text, columns, row);
            return row;
        }
        columns.clear();
        for (int64_t i = first; i < last; ++i) {
            const int64_t word = view.summed[i];
            for (int64_t k = word_ends[word]; k < word_ends[word + 1]; ++k) {
                const Counted entry = of_words[k];
                if (!totals[entry.column]) columns.push_back(entry.column);
                totals[entry.column] += entry.count;
            }
        }
        for (auto column = columns.rbegin(); column != columns.rend(); ++column) {
            row.push_back({*column, totals[*column]});
            totals[*column] = 0;
        }
        return row;
    }
};

template <class Real> int text_features(const RepresenterTexts& p) {
    std::vector<TextView> views;
    for (int64_t v = 0; v < p.views; ++v) views.emplace_back(p.of_views[v]);
    std::vector<double> values, squares;
    int64_t end = 0;
    p.starts[0] = 0;
    for (int64_t i = 0; i < p.rows; ++i) {
        int64_t column = 0;
        for (int64_t v = 0; v < p.views; ++v) {
            const std::vector<Counted>& row = views[v].counts(p.ends[i], p.ends[i + 1], i);
            const int64_t count = int64_t(row.size());
            if (end + count > p.capacity) return UNSUPPORTED;
            values.resize(count), squares.resize(count);
            for (int64_t k = 0; k < count; ++k) {
                if (row[k].count > p.most) return UNSUPPORTED;
                values[k] = p.damped[row[k].count] * p.of_views[v].weights[row[k].column];
                squares[k] = values[k] * values[k];
            }
            const double norm = count ? std::sqrt(squares[0] + (count > 1 ? pairwise_sum(&squares[1], count - 1) : 0)) : 0;
            Real* data = static_cast<Real*>(p.data) + end;
            for (int64_t k = 0; k < count; ++k) {
                data[k] = Real(values[k] / (norm > 0 ? norm : 1) * p.scale);
                p.indices[end + k] = int32_t(column + row[k].column);
            }
            end += count, column += p.of_views[v].features;
        }
        p.starts[i + 1] = end;
    }
    return OK;
}

}  // namespace REPRESENTER_ISA
}  // namespace representer
