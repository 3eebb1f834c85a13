// What the saturation study is held against: an exact table, and figures of an independent computation in
// another framework (PyTorch 1.13, one to three seeds). The report shows them beside ours.
#pragma once

#include <cmath>

#include "attune/lib/number.h"

namespace attune::studies::reference {

// Exact means of rows of n scores sigma z: E H / ln n and E sum p².
struct ExactRow {
  double sigma;
  double entropy[5], sum_squares[5];  // by kTableKeys
};
inline constexpr Index kTableKeys[] = {2, 8, 32, 128, 1024};
inline constexpr ExactRow kExactRows[] = {
    {0.5, {.92325, .94992, .96552, .97452, .98199}, {.55075, .15285, .03959, .01000, .00125}},
    {1, {.77833, .82801, .86948, .89976, .92812}, {.63684, .23231, .07281, .02019, .00264}},
    {1.4142, {.66654, .71392, .76294, .80726, .85724}, {.69715, .31666, .12663, .04343, .00677}},
    {2, {.54151, .57320, .61321, .65827, .72518}, {.75999, .42965, .22837, .10986, .02854}},
    {2.8284, {.41961, .43098, .45052, .47769, .52990}, {.81763, .55242, .37003, .23978, .11206}},
    {4, {.31357, .30958, .31152, .31884, .33884}, {.86553, .66453, .51829, .40443, .27253}},
    {5.6569, {.22873, .21719, .21030, .20709, .20753}, {.90270, .75555, .64614, .55837, .45113}},
    {8, {.16446, .15114, .14188, .13552, .12967}, {.93036, .82455, .74530, .68115, .60166}},
    {16, {.08331, .07331, .06624, .06109, .05561}, {.96485, .91133, .87111, .83844, .79777}},
    {32, {.04179, .03596, .03190, .02897, .02583}, {.98238, .95555, .93538, .91899, .89858}},
};

// Drawn rows: E max p, then ‖J‖_F as mean, median and 10th percentile, the mean largest eigenvalue, and dead
// rows.
struct DrawnRow {
  Index keys;
  double sigma, max_weight, mean, median, p10, spectral, dead;
};
inline constexpr DrawnRow kDrawnRows[] = {
    {32, 1, .164, .241, .238, .216, .145, .000},    {32, 2, .377, .313, .316, .268, .247, .000},
    {32, 4, .644, .288, .338, .065, .258, .003},    {32, 8, .819, .194, .154, .0013, .184, .091},
    {32, 16, .909, .113, .0137, 6e-7, .110, .338},  {32, 32, .955, .061, 8.0e-5, 0, .060, .598},
    {128, 1, .069, .136, .133, .122, .065, .000},   {128, 2, .240, .246, .245, .197, .180, .000},
    {128, 4, .548, .297, .325, .124, .256, .001},   {128, 8, .770, .223, .229, .0048, .207, .051},
    {128, 16, .886, .135, .0356, 7e-6, .130, .261}, {128, 32, .944, .073, 5.5e-4, 0, .072, .527},
};

// ‖dL/dq‖ at n = 32, where q, k, v and dL/dy are N(0, I_d): mean, root mean square, median, 10th percentile.
struct Gradient {
  const char* rule;
  double width, mean, rms, median, p10;
};
inline constexpr Gradient kGradients[] = {
    {"1", 16, 3.76, 4.89, 3.05, 4.9e-1},     {"1", 64, 10.4, 16.8, 5.11, 4.3e-2},
    {"1", 256, 23.2, 50.3, 1.79, 7.6e-5},    {"1", 1024, 49.7, 144, 0.048, 1.9e-10},
    {"1/sqrt", 16, .889, .966, .813, .488},  {"1/sqrt", 64, 1.83, 1.94, 1.71, 1.16},
    {"1/sqrt", 256, 3.65, 3.85, 3.44, 2.38}, {"1/sqrt", 1024, 7.37, 7.75, 6.96, 4.81},
    {"1/d", 16, .171, .178, .167, .113},     {"1/d", 64, .172, .175, .170, .133},
    {"1/d", 256, .173, .174, .172, .142},    {"1/d", 1024, .172, .174, .171, .143},
};

// Steps to an accuracy of 0.9 on the lookup task, of two seeds; kNever where it was not reached.
inline constexpr double kNever = 1e9;
struct Steps {
  const char *optimizer, *rule;
  int width;
  double low, high;
};
inline constexpr Steps kSteps[] = {
    {"adam", "1", 8, kNever, kNever},
    {"adam", "1", 32, kNever, kNever},
    {"adam", "1", 128, kNever, kNever},
    {"adam", "1/sqrt", 8, 1445, kNever},
    {"adam", "1/sqrt", 32, 335, 345},
    {"adam", "1/sqrt", 128, 77, 83},
    {"adam", "1/d", 8, 1387, 1493},
    {"adam", "1/d", 32, 355, 367},
    {"adam", "1/d", 128, 107, 109},
    {"adam", "8/d", 128, 74, 77},
    {"adam", "learned", 128, 77, 83},
    {"adam", "learned-raw", 128, kNever, kNever},
    {"adam", "qknorm-log", 128, 74, 78},
    {"adam", "qknorm", 128, 75, 82},
    {"adam", "softcap50", 128, 77, 83},
    {"adam", "softcap50-raw", 128, kNever, kNever},
    {"adam", "softcap10-raw", 128, kNever, kNever},
    {"sgd", "1", 8, kNever, kNever},
    {"sgd", "1", 32, kNever, kNever},
    {"sgd", "1", 128, kNever, kNever},
    {"sgd", "1/sqrt", 8, 512, 529},
    {"sgd", "1/sqrt", 32, 92, 108},
    {"sgd", "1/sqrt", 128, 37, 37},
    {"sgd", "1/d", 8, 639, 647},
    {"sgd", "1/d", 32, 238, 250},
    {"sgd", "1/d", 128, 120, 120},
    {"sgd", "qknorm", 8, 561, 808},
    {"sgd", "qknorm", 32, 85, 95},
    {"sgd", "qknorm", 128, 37, 37},
};

// The same within 600 steps of Adam, by the scores' initial deviation; one seed.
inline constexpr double kCollapseSigmas[] = {.1, .3, 1, 2, 2.63, 3.5, 5, 8, 12};
struct Collapse {
  int width;
  const char* rule;
  double steps[9];
};
inline constexpr Collapse kCollapse[] = {
    {32, "1/sqrt", {261, 262, 345, 571, kNever, kNever, kNever, kNever, kNever}},
    {32, "1", {198, 201, 275, 390, 494, kNever, kNever, kNever, kNever}},
    {128, "1/sqrt", {72, 67, 77, 123, 170, 335, kNever, kNever, kNever}},
    {128, "1", {53, 53, 66, 107, 243, 453, kNever, kNever, kNever}},
};

}  // namespace attune::studies::reference
