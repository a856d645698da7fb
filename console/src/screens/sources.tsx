// Where tools come from: how each source is, and for administrators adding, testing, disabling and removing them.

import { useSignal } from "@preact/signals";
import { lazy, Suspense } from "preact/compat";
import { api, at, get, me, post } from "../api";
import { Choice, Confirm, Do, length, Nothing, plain, Said, State, Time, Trouble, useAsked, useLooked, Value } from "../parts/basics";
import { Rows } from "../parts/rows";
import { go, route, to } from "../router";
import type { Page, SourceDetails, SourceEntry, SourceTestForm, ToolsPage } from "../types";

const SchemaForm = lazy(() => import("../parts/form").then((made) => ({ default: made.SchemaForm })));
const LOOK_MS = 2_000;
const SECONDS = 3_600;
const NEW = "+";

/** Whoever looks after the server sees all of a source; others see of which sources they have tools, and whether these are well. */
async function looked(): Promise<SourceDetails[]> {
  if (me.value?.admin) return (await get<Page<SourceDetails>>("v1/sources", { seconds: SECONDS })).items;
  const { facets, unwell } = await get<ToolsPage>("v1/tools", { limit: 1 });
  const ill = new Map(unwell?.map((one) => [one.name, one]));
  return Object.entries(facets?.source ?? {}).map(([name, tools]) => ({
    name,
    kind: "",
    origin: "configured",
    enabled: true,
    tools,
    status: ill.get(name)?.health ?? "ok",
    reason: ill.get(name)?.reason ?? "",
  }));
}

export function Sources() {
  const sources = useLooked(looked, LOOK_MS);
  const items = sources.value ?? [];
  const chosen = route.value.parts[1];
  const index = items.findIndex((one) => one.name === chosen);
  const source = items[index];
  const admin = me.value?.admin ?? false;
  return (
    <>
      <div class="head">
        <h1>Sources</h1>
        <span class="soft">{sources.value && items.length.toLocaleString()}</span>
        <span class="grow" />
        {admin && (
          <a class="button main" href={to("sources", NEW)}>
            Add a source
          </a>
        )}
      </div>
      <Trouble of={sources.trouble} />
      <div class={`split ${source || chosen === NEW ? "chosen" : ""}`}>
        {sources.value && items.length === 0 ? (
          <Empty admin={admin} />
        ) : (
          <Rows
            count={items.length}
            height={54}
            label="Sources"
            chosen={index}
            choose={(n) => go(to("sources", items[n]!.name))}
            row={(n) => <SourceRow of={items[n]!} chosen={n === index} />}
          />
        )}
        <div class="detail">
          {(source || chosen === NEW) && (
            <a class="back" href={to("sources")}>
              ‹ all sources
            </a>
          )}
          {chosen === NEW && admin ? (
            <Adding
              added={(name) => {
                sources.again();
                go(to("sources", name));
              }}
            />
          ) : (
            source && <One key={source.name} of={source} admin={admin} changed={sources.again} />
          )}
        </div>
      </div>
    </>
  );
}

const Empty = ({ admin }: { admin: boolean }) => (
  <Nothing>
    There is no source of tools here.{" "}
    {admin ? (
      <>
        <a href={to("sources", NEW)}>Add a source</a>, or name
      </>
    ) : (
      "Whoever looks after the server names"
    )}{" "}
    one under <code>sources:</code> in crib.yaml.
  </Nothing>
);

const SourceRow = ({ of, chosen }: { of: SourceDetails; chosen: boolean }) => (
  <a class="row middle" tabIndex={-1} href={to("sources", of.name)} aria-current={chosen ? "true" : undefined}>
    <span class="grow">
      <span class="cut line">
        <b>{plain(of.name)}</b>{" "}
        <span class="soft small">
          {of.kind}
          {of.origin === "added" && ", added"}
        </span>
      </span>
      <span class="cut line soft small">
        {many(of.tools, "tool")}
        {of.recent?.p50_ms != null && ` · ${many(of.recent.calls, "call")} in an hour, median ${length(of.recent.p50_ms / 1000)}`}
        {of.reason && (
          <>
            {" "}
            · <Said of={of.reason} most={120} />
          </>
        )}
      </span>
    </span>
    <State of={of.status} />
  </a>
);

const many = (count: number, what: string) => `${count.toLocaleString()} ${what}${count === 1 ? "" : "s"}`;

function One({ of, admin, changed }: { of: SourceDetails; admin: boolean; changed: () => void }) {
  const test = useSignal<SourceTestForm | undefined>(undefined);
  const where = at("sources", of.name);
  const act = (what: string) => async () => {
    await post(`${where}/${what}`);
    changed();
  };
  return (
    <section class="sheet" aria-label={of.name}>
      <div class="head">
        <h2 class="mono title">{plain(of.name)}</h2>
        <span class="grow" />
        {of.kind && <span class="tag">{of.kind}</span>}
        <State of={of.status} />
      </div>
      {of.reason && (
        <p class="trouble">
          <Said of={of.reason} />
        </p>
      )}
      <p class="small soft">
        <a href={`${to("tools")}?source=${encodeURIComponent(of.name)}`}>{many(of.tools, "tool")}</a> ·{" "}
        {of.origin === "configured" ? (
          "set up in crib.yaml or in the program"
        ) : (
          <>
            added by {plain(of.by ?? "somebody")} <Time at={of.added_at ?? undefined} />
          </>
        )}
      </p>
      {of.recent && <Recent of={of.recent} name={of.name} />}
      {admin && (
        <div class="actions">
          <Do
            disabled={!of.enabled}
            work={async () => {
              test.value = undefined;
              test.value = await post<SourceTestForm>(`${where}/test`);
              changed();
            }}
          >
            Test
          </Do>
          <Do disabled={!of.enabled} work={act("refresh")}>
            List its tools anew
          </Do>
          {of.enabled ? (
            <Confirm
              class="bad"
              title={`Disable ${of.name}?`}
              work={act("disable")}
              text={`Its ${many(of.tools, "tool")} cannot be called until it is enabled again. Calls that it works on go on to their end.`}
            >
              Disable
            </Confirm>
          ) : (
            <Do class="main" work={act("enable")}>
              Enable
            </Do>
          )}
          {of.origin === "added" && (
            <Confirm
              class="bad"
              title={`Remove ${of.name}?`}
              work={async () => {
                await api("DELETE", where);
                changed();
                go(to("sources"));
              }}
              text={`Its ${many(of.tools, "tool")} and its settings go away, for every process over this store. Calls that it works on go on to their end.`}
            >
              Remove
            </Confirm>
          )}
        </div>
      )}
      {test.value && <Tested of={test.value} />}
      {of.entry && (
        <details>
          <summary class="small soft">settings</summary>
          <Value of={of.entry} label="Settings" />
        </details>
      )}
    </section>
  );
}

function Recent({ of, name }: { of: NonNullable<SourceDetails["recent"]>; name: string }) {
  const last = of.last_failure;
  const calls = (which: string) => `${to("overview")}?${new URLSearchParams({ source: name, range: "hour", calls: which })}`;
  return (
    <>
      <div class="columns figures">
        <Figure value={of.calls.toLocaleString()} name="calls in an hour" link={of.calls ? calls("1") : undefined} />
        <Figure value={of.failures.toLocaleString()} name="failed" link={of.failures ? calls("failed") : undefined} />
        {of.p50_ms != null && <Figure value={length(of.p50_ms / 1000)} name="median" />}
        {of.p95_ms != null && <Figure value={length(of.p95_ms / 1000)} name="95 of 100 within" />}
      </div>
      {last && (
        <p class="small">
          Last failure: <a href={to("live", last.session, last.call)}>{plain(last.tool)}</a> <State of={last.outcome} />{" "}
          <Time at={last.at} />
        </p>
      )}
    </>
  );
}

const Figure = ({ value, name, link }: { value: string; name: string; link?: string }) => (
  <div class="figure">
    <b>{link ? <a href={link}>{value}</a> : value}</b>
    <span class="soft small">{name}</span>
  </div>
);

const Tested = ({ of }: { of: SourceTestForm }) => (
  <div role="status" class="below">
    {of.ok ? (
      <p>
        <State of="ok" /> It answers, with {many(of.tools.length, "tool")}.
      </p>
    ) : (
      <p class="trouble">
        <Said of={of.problem} />
      </p>
    )}
    {of.tools.length > 0 && <Value of={of.tools.join("\n")} label="Tools" />}
  </div>
);

const KINDS = [
  ["address", "MCP server at an address"],
  ["command", "MCP server that is a program"],
  ["openapi", "OpenAPI document"],
] as const;
type Kind = (typeof KINDS)[number][0];
const HINTS: Record<Kind, string> = {
  address: "https://example.com/mcp",
  command: "uvx mcp-server-time",
  openapi: "https://example.com/openapi.json",
};

/** The settings that only some kinds take: others are refused. */
const NOT: Record<Kind, string[]> = {
  address: ["env"],
  command: ["headers", "account"],
  openapi: ["env", "account", "share", "connections", "start_s", "idle_s", "revision", "tasks", "prefix"],
};
const OWN = ["name", "mcp", "openapi", "trusted"];

function Adding({ added }: { added: (name: string) => void }) {
  const kind = useSignal<Kind>("address");
  const name = useSignal("");
  const place = useSignal("");
  const trusted = useSignal(false);
  const more = useSignal<unknown>({});
  const test = useSignal<SourceTestForm | undefined>(undefined);
  const entry = (): SourceEntry => {
    const rest = Object.entries((more.value ?? {}) as object).filter(
      ([key, value]) => !NOT[kind.value].includes(key) && value !== undefined && value !== null,
    );
    return {
      ...Object.fromEntries(rest),
      name: name.value.trim(),
      [kind.value === "openapi" ? "openapi" : "mcp"]: place.value.trim(),
      trusted: trusted.value,
    };
  };
  const ready = !!name.value.trim() && !!place.value.trim() && more.value !== undefined;
  const check = async () => {
    test.value = undefined;
    test.value = await post<SourceTestForm>("v1/source-tests", entry());
  };
  const add = async () => {
    const made = await post<SourceDetails>("v1/sources", entry());
    added(made.name);
  };
  return (
    <section class="sheet" aria-label="Add a source">
      <h2>Add a source</h2>
      <p class="small soft">
        It is there for every process over this store, also after a restart. It is tested first: nothing is added where that fails.
      </p>
      <label class="field">
        What it is
        <Choice label="What it is" value={kind.value} choices={KINDS} changed={(value) => (kind.value = value as Kind)} />
      </label>
      <label class="field">
        Name
        <input
          value={name.value}
          placeholder="small letters, digits, - and _"
          onInput={(event) => (name.value = event.currentTarget.value)}
          autocapitalize="none"
          spellcheck={false}
        />
      </label>
      <label class="field">
        {kind.value === "command" ? "Command" : "Address"}
        <input
          value={place.value}
          placeholder={HINTS[kind.value]}
          onInput={(event) => (place.value = event.currentTarget.value)}
          autocapitalize="none"
          spellcheck={false}
        />
      </label>
      <label class="beside">
        <input type="checkbox" checked={trusted.value} onChange={(event) => (trusted.value = event.currentTarget.checked)} />
        Trusted: what it says of its tools is believed
      </label>
      <More kind={kind.value} value={more.value} changed={(value) => (more.value = value)} />
      <div class="actions below">
        <Do disabled={!ready} work={check}>
          Test
        </Do>
        <Do class="main" disabled={!ready} work={add}>
          Add
        </Do>
      </div>
      {test.value && <Tested of={test.value} />}
    </section>
  );
}

interface Described {
  components: { schemas: Record<string, { properties: Record<string, unknown> }> };
}

/** All other settings, as the server describes them. Secrets are references: what is typed here is kept in the log. */
function More({ kind, value, changed }: { kind: Kind; value: unknown; changed: (value: unknown) => void }) {
  const open = useSignal(false);
  const described = useAsked(
    async (abort) => (open.value ? (await get<Described>("v1/openapi.json", {}, abort)).components.schemas.SourceEntry : undefined),
    [open.value],
  );
  const left = Object.entries(described.value?.properties ?? {}).filter(([name]) => !OWN.includes(name) && !NOT[kind].includes(name));
  return (
    <details onToggle={(event) => (open.value = event.currentTarget.open)}>
      <summary>More settings</summary>
      <p class="small soft">
        A secret is a reference such as <code>env:NAME</code>, never the secret itself.
      </p>
      <Trouble of={described.trouble} />
      {left.length > 0 && (
        <Suspense fallback={<p class="soft">…</p>}>
          <SchemaForm
            key={kind}
            schema={{ type: "object", properties: Object.fromEntries(left) }}
            value={value}
            changed={changed}
            label="Settings"
          />
        </Suspense>
      )}
    </details>
  );
}
