// Light, dark, or as the system is.

import { effect, signal } from "@preact/signals";

const KEPT = "toolcrib-theme";

export const theme = signal(localStorage.getItem(KEPT) ?? "");

effect(() => {
  document.documentElement.dataset.theme = theme.value;
  localStorage.setItem(KEPT, theme.value);
});
