// What toy models are trained on: tasks, text, and one's own sequences.
#pragma once

#include "attune/layers/batch.h"
#include "attune/layers/score.h"
#include "attune/layers/sequences.h"
#include "attune/layers/tasks.h"
#include "attune/layers/text.h"
