// Why a question is asked: where the values of a call were seen, with the passage marked.

import { route, to } from "../router";
import type { Question } from "../types";
import { found, Marked, Said } from "./basics";

/** As the guard of the policy writes it into the data of a question. */
interface Origin {
  text: string;
  value?: string;
  call?: string;
  passage?: string;
}

const isOrigin = (one: unknown): one is Origin => typeof (one as Origin | null)?.text === "string";

export function originsOf({ data }: Question): Origin[] {
  const { origins } = (data ?? {}) as { origins?: unknown };
  return Array.isArray(origins) ? origins.filter(isOrigin) : [];
}

/** What else a question brings with it. */
export function restOf({ data }: Question): unknown {
  if (typeof data !== "object" || data === null || !("origins" in data)) return data;
  const { origins: _, ...rest } = data;
  return Object.keys(rest).length ? rest : undefined;
}

/** The call that a value came from, in this session or among all calls, with the passage marked in its result. */
function source(session: string, { call, value, passage }: Origin): string {
  const marks = new URLSearchParams([value, passage && core(passage)].filter((one) => one).map((one) => ["mark", one!]));
  if (route.value.parts[0] !== "sessions") return `${to("live", session, call!)}?${marks}`;
  marks.set("call", call!);
  return `${to("sessions", session)}?${marks}`;
}

/** A passage without the dots where it was cut out of its text. */
const core = (passage: string) => passage.replace(/^…|…$/g, "");

export const Origins = ({ of }: { of: Question }) => (
  <ul class="origins" aria-label="Why it is asked">
    {originsOf(of).map((one, n) => (
      <li key={n}>
        {!of.prompt.includes(one.text) && <Said of={one.text} />}
        {one.passage && (
          <blockquote>
            <bdi>
              <Marked text={one.passage} place={found(one.passage, [one.value ?? ""])} />
            </bdi>
          </blockquote>
        )}
        {one.call && (
          <a class="small" href={source(of.session, one)}>
            Show it in the result
          </a>
        )}
      </li>
    ))}
  </ul>
);
