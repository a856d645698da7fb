// Numbers as people read them.

import { length } from "./basics";

export const failed = (of: { failures: Record<string, number> }) => Object.values(of.failures).reduce((a, b) => a + b, 0);
export const many = (value: number) =>
  value.toLocaleString(undefined, { notation: value >= 1e5 ? "compact" : "standard", maximumFractionDigits: value >= 1e5 ? 1 : 0 });
export const dollars = (value: number) =>
  `$${value.toLocaleString(undefined, { minimumFractionDigits: 2, maximumFractionDigits: value >= 1 ? 2 : 4 })}`;
export const time = (ms: number | null) => (ms === null ? "none" : length(ms / 1000));
export const share = (part: number, of: number) =>
  of ? `${((100 * part) / of).toLocaleString(undefined, { maximumFractionDigits: 1 })} %` : "0 %";
