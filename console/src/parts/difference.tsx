// Two values line by line, in one column or side by side.

import { plain } from "./basics";

/** Two values line by line. */
export function Difference({ before, after }: { before: unknown; after: unknown }) {
  return (
    <div class="json" role="region" aria-label="What is changed" tabIndex={0}>
      <pre>
        {compared(lines(before), lines(after)).map(([mark, line], n) =>
          mark === "-" ? (
            <del key={n} class="removed">
              - {line}
            </del>
          ) : mark === "+" ? (
            <ins key={n} class="added">
              + {line}
            </ins>
          ) : (
            <span key={n} class="same">
              {`  ${line}`}
            </span>
          ),
        )}
      </pre>
    </div>
  );
}

type Compared = ["-" | "+" | " ", string][];

/** What went, what came and what stayed, in its order: the longest common subsequence of the middle parts that differ. */
function compared(old: string[], fresh: string[]): Compared {
  let first = 0;
  while (first < old.length && first < fresh.length && old[first] === fresh[first]) first++;
  let last = 0;
  while (last < Math.min(old.length, fresh.length) - first && old.at(-1 - last) === fresh.at(-1 - last)) last++;
  const [a, b] = [old.slice(first, old.length - last), fresh.slice(first, fresh.length - last)];
  const same = (some: string[]): Compared => some.map((line) => [" ", line]);
  return [...same(old.slice(0, first)), ...middle(a, b), ...same(old.slice(old.length - last))];
}

const MOST_COMPARED = 400;

function middle(a: string[], b: string[]): Compared {
  if (a.length > MOST_COMPARED || b.length > MOST_COMPARED)
    return [...a.map((line) => ["-", line]), ...b.map((line) => ["+", line])] as Compared;
  const common = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      common[i]![j] = a[i] === b[j] ? common[i + 1]![j + 1]! + 1 : Math.max(common[i + 1]![j]!, common[i]![j + 1]!);
  const made: Compared = [];
  for (let i = 0, j = 0; i < a.length || j < b.length; ) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      made.push([" ", a[i++]!]);
      j++;
    } else if (j >= b.length || (i < a.length && common[i + 1]![j]! >= common[i]![j + 1]!)) made.push(["-", a[i++]!]);
    else made.push(["+", b[j++]!]);
  }
  return made;
}

const lines = (value: unknown) => plain(typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? "")).split("\n");

/** What changed stands beside what it was; what stayed stands in both. */
export function SideBySide({ before, after, label, names }: { before: unknown; after: unknown; label: string; names: [string, string] }) {
  const rows: [string | undefined, string | undefined][] = [];
  let open = 0; // the first row whose right side is free
  for (const [mark, line] of compared(lines(before), lines(after))) {
    if (mark === "-") rows.push([line, undefined]);
    else if (mark === " ") rows.push([line, line]);
    else {
      while (open < rows.length && rows[open]![1] !== undefined) open++;
      if (open < rows.length) rows[open]![1] = line;
      else rows.push([undefined, line]);
    }
    if (mark === " ") open = rows.length;
  }
  return (
    <div class="json beside-each-other" role="region" aria-label={label} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {names.map((name) => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(([old, fresh], n) => (
            <tr key={n}>
              <td>
                {old === fresh ? (
                  <pre>{old}</pre>
                ) : (
                  old !== undefined && (
                    <del class="removed">
                      <pre>{old}</pre>
                    </del>
                  )
                )}
              </td>
              <td>
                {old === fresh ? (
                  <pre>{fresh}</pre>
                ) : (
                  fresh !== undefined && (
                    <ins class="added">
                      <pre>{fresh}</pre>
                    </ins>
                  )
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
