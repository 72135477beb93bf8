"""The figures of the three papers, typed a second time from the papers, independent of the code."""

from __future__ import annotations

# L19 Table 1: d by d products of the state and d by m products of the input, by the paper's name.
L19_TABLE_1 = """
LSTM                   4 4
RKM-LSTM               4 4
RKM-CIFG               3 3
Linear Kernel w/ o_t   2 2
Linear Kernel          1 1
Gated CNN              0 2
CNN                    0 1
"""

# L19 Table 2: parameters in thousands (1-gram, 3-gram), then test accuracy on AG News, DBpedia,
# Yahoo! and Yelp Full, each with 1-gram and 3-gram filters.
L19_TABLE_2 = """
LSTM                   720 1440  91.82 92.46  98.98 98.97  77.74 77.72  66.27 66.37
RKM-LSTM               720 1440  91.76 92.28  98.97 99.00  77.70 77.72  65.92 66.43
RKM-CIFG               540 1080  92.29 92.39  98.99 99.05  77.71 77.91  65.93 65.92
Linear Kernel w/ o_t   360  720  92.07 91.49  98.96 98.94  77.41 77.53  65.35 65.94
Linear Kernel          180  360  91.62 91.50  98.65 98.77  76.93 76.53  61.18 62.11
Gated CNN              180  540  91.54 91.78  98.37 98.77  72.92 76.66  60.25 64.30
CNN                     90  270  91.20 91.53  98.17 98.52  72.51 75.97  59.77 62.08
"""

# L19 Table 3: validation and test perplexity on the Penn Treebank, then on WikiText-2.
L19_TABLE_3 = """
LSTM                   61.2 58.9  68.74 65.68
RKM-LSTM               60.3 58.2  67.85 65.22
RKM-CIFG               61.9 59.5  69.12 66.03
Linear Kernel w/ o_t   72.3 69.7  84.23 80.21
"""

# L19 Table 4: mean accuracy over 29 mice.
L19_TABLE_4 = """
n-gram LSTM            80.24
RKM-LSTM               79.02
RKM-CIFG               77.58
Linear Kernel w/ o_t   76.11
Linear Kernel          73.13
Gated CNN              76.02
CNN                    73.40
"""

# L17 Table 1, the kernel networks: millions of parameters, test perplexity.
L17_TABLE_1 = """
constant               5  84.3
learned                5  76.8
state                  5  73.6
large                 20  69.2
large-variational     20  65.5
large-deep            20  63.8
"""

# L17 Table 2, the kernel networks: the best of five runs on five classes and on two.
L17_TABLE_2 = """
constant               51.2 88.6
gated                  53.2 89.9
"""

# L17 Table 3: RMSE; the first block's kernels, and all rows under the authors' setup.
L17_TABLE_3 = """
mean of the training part            2.4062
Weisfeiler-Lehman kernel, degree 3   0.2040
Weisfeiler-Lehman kernel, degree 6   0.1367
embedded mean field, Dai et al.      0.1250
embedded loopy BP, Dai et al.        0.1174
neural-fingerprint                   0.1409
loopy-bp                             0.1065
wl                                   0.1058
wl-gated                             0.1043
"""


# Rows of the official training and test files of L19 Table 2.
DOCUMENTS = """
ag_news                  120000  7600
dbpedia                  560000 70000
yahoo                   1400000 60000
yelp                     650000 50000
"""

# Training, validation and test examples of the Stanford Sentiment Treebank (11,855 sentences).
TREEBANK = """
fine                   157401 1101 2210
binary                  77201  872 1821
fine-roots               8544 1101 2210
binary-roots             6920  872 1821
"""


def rows(table: str) -> dict[str, list[float]]:
    """Return the figures of a table by the name at the head of each line."""
    found = {}
    for line in table.strip().splitlines():
        name, _, figures = line.partition("  ")
        found[name.strip()] = [float(figure) for figure in figures.split()]
    return found


# The networks of others in L17 Table 1, in the paper's order: millions of parameters, perplexity.
L17_TABLE_1_OTHERS = ((66, 78.4), (19, 78.9), (20, 78.6), (66, 73.4), (21, 70.9), (23, 65.4),
                      (25, 64.0))  # fmt: skip

# Those in L17 Table 2: accuracies on five classes and on two.
L17_TABLE_2_OTHERS = (
    (43.2, 82.4), (45.7, 85.4), (49.8, 86.8), (51.0, 88.0), (48.5, 86.9), (47.4, 88.1),
    (49.1, 87.5), (47.9, 87.0), (48.7, 87.8), (48.2, 86.8), (52.1, 88.6),
)  # fmt: skip
