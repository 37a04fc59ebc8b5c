// The page of one trial.

import { wireTrial } from "./trial.js";

wireTrial(document.getElementById("main"));
