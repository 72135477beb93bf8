// Adam in some rows of a weight (ops/adam_rows): the steps that they missed, and one with a gradient.
#pragma once

#include <cmath>
#include <limits>

#include "core.hpp"
#include "parallel.hpp"
#include "vec.hpp"

namespace representer {
namespace REPRESENTER_ISA {

template <class Real> REPRESENTER_INLINE Vec<Real> square_root(Vec<Real> x) {
    for (int i = 0; i < Lanes<Real>::n; ++i) x[i] = std::sqrt(x[i]);
    return x;
}

// The missed moves of a row, divided by its first moment: sum a / (x + b) over the steps from `last` to `end`, where
// x is the root of the second moment, and a and b are those of RepresenterAdam times powers of `ratio` and `growth`.
// Since b increases slowly, it is the series t (s_0 - t (s_1 - t ...)) in t = c / (x + c), with the center c of all b
// and s_n = sum a ((b - c) / c)^n / c: one division for all steps. In the first steps b increases fast, the series
// needs too many terms, and the moves are added up one by one.
struct AdamMoves {
    static constexpr int TERMS = 12;
    int64_t last, end;
    double ratio, growth;  // of two successive moves: of the first moment, and of epsilon
    int terms;             // 0 for one by one
    double center, s[TERMS];

    template <class Function> REPRESENTER_INLINE void each(const RepresenterAdam& p, Function function) const {
        double move = 1, shift = p.epsilon;
        for (int64_t step = last; step < end; ++step) {
            move *= ratio, shift *= growth;
            function(p.a[step] * move, p.b[step] * shift);
        }
    }

    void expand(const RepresenterAdam& p, double precision) {
        terms = 0;
        if (last == end) return;
        const double least = p.b[last] * p.epsilon * growth;
        const double most = p.b[end - 1] * p.epsilon * std::pow(growth, double(end - last));
        const double spread = (most - least) / (most + least);
        center = (most + least) / 2;
        int needed = 1;
        for (double error = spread; error > precision; error *= spread)
            if (++needed > TERMS) return;
        terms = needed;
        for (int n = 0; n < TERMS; ++n) s[n] = 0;
        each(p, [&](double a, double b) {
            const double offset = (b - center) / center;
            double term = a / center;
            for (int n = 0; n < terms; ++n) s[n] += term, term *= offset;
        });
    }
};

struct AdamRow {
    int64_t index, place;   // row of the weight and of the gradient
    double decay1, decay2;  // of the moments over the missed steps
    AdamMoves moves;
};

// Perform the missed steps of `count` features from feature j on, and the step with the gradient if there is one.
template <class Real, int W> REPRESENTER_INLINE void adam_features(const RepresenterAdam& p, const AdamRow& row, int64_t j, int64_t count) {
    constexpr int V = Lanes<Real>::n;
    const int64_t at = row.index * p.features + j;
    Real* const tensors[] = {static_cast<Real*>(p.weight) + at, static_cast<Real*>(p.first) + at, static_cast<Real*>(p.second) + at};
    int lanes[W];
    Vec<Real> w[W], m[W], v[W];
    for (int i = 0; i < W; ++i) {
        lanes[i] = int(count - i * V < V ? count - i * V : V);
        w[i] = load(tensors[0] + i * V, lanes[i]), m[i] = load(tensors[1] + i * V, lanes[i]), v[i] = load(tensors[2] + i * V, lanes[i]);
    }
    const AdamMoves& moves = row.moves;
    if (moves.last < moves.end) {
        Vec<Real> root[W], total[W];
        for (int i = 0; i < W; ++i) root[i] = square_root<Real>(v[i]), total[i] = Vec<Real>{};
        if (moves.terms) {
            const Real center = Real(moves.center);
            for (int i = 0; i < W; ++i) {
                const Vec<Real> t = center / (root[i] + center);
                for (int n = moves.terms - 1; n >= 0; --n) total[i] = t * (Real(moves.s[n]) - total[i]);
            }
        } else {
            moves.each(p, [&](double a, double b) {
                for (int i = 0; i < W; ++i) total[i] += Real(a) / (root[i] + Real(b));
            });
        }
        for (int i = 0; i < W; ++i) w[i] -= m[i] * total[i], m[i] *= Real(row.decay1), v[i] *= Real(row.decay2);
    }
    if (p.gradient) {
        const Real* gradient = static_cast<const Real*>(p.gradient) + row.place * p.features + j;
        const Real a = Real(p.a[p.step]), b = Real(p.b[p.step] * p.epsilon), part1 = Real(1 - p.beta1), part2 = Real(1 - p.beta2);
        for (int i = 0; i < W; ++i) {
            const Vec<Real> g = load(gradient + i * V, lanes[i]);
            m[i] += part1 * (g - m[i]), v[i] = Real(p.beta2) * v[i] + part2 * g * g;
            w[i] -= a * m[i] / (square_root<Real>(v[i]) + b);
        }
    }
    for (int i = 0; i < W; ++i)
        store(tensors[0] + i * V, w[i], lanes[i]), store(tensors[1] + i * V, m[i], lanes[i]), store(tensors[2] + i * V, v[i], lanes[i]);
}

template <class Real> void adam_row(const RepresenterAdam& p, int64_t i) {
    constexpr int64_t V = Lanes<Real>::n, WIDE = 4 * V;  // as many divisions at a time as the registers hold
    const int64_t index = p.index[i], E = p.features, last = p.last[index];
    const int64_t missed = last < 0 || last > p.step ? 0 : p.step - last;
    if (!missed && !p.gradient) return;
    AdamRow row{index, i, std::pow(p.beta1, double(missed)), std::pow(p.beta2, double(missed)), {}};
    row.moves.last = p.step - missed, row.moves.end = missed < p.window ? p.step : row.moves.last + p.window;
    row.moves.growth = 1 / std::sqrt(p.beta2), row.moves.ratio = p.beta1 * row.moves.growth;
    row.moves.expand(p, std::numeric_limits<Real>::epsilon() / 4);
    int64_t j = 0;
    for (; j + WIDE <= E; j += WIDE) adam_features<Real, 4>(p, row, j, WIDE);
    for (; j < E; j += V) adam_features<Real, 1>(p, row, j, E - j);
    p.last[index] = p.step + (p.gradient ? 1 : 0);
}

template <class Real> int adam_rows(const RepresenterAdam& p) {
    constexpr int64_t BLOCK = 16;  // rows that a thread takes at a time: some have missed more steps than others
    parallel_for<DYNAMIC>((p.rows + BLOCK - 1) / BLOCK, p.threads, [&](int64_t block) {
        const int64_t end = (block + 1) * BLOCK < p.rows ? (block + 1) * BLOCK : p.rows;
        for (int64_t i = block * BLOCK; i < end; ++i) adam_row<Real>(p, i);
    });
    return OK;
}

}  // namespace REPRESENTER_ISA
}  // namespace representer
