// Which tables of a project are captured: registered as listened to, with their triggers on.
import type { CaptureSwitch } from '#src/tenancy/capture-switch.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { ChangeSubscriber } from '../subscriber.ts'
import { isOfTable } from './matching.ts'
import type { ChangesStore, FoundTable } from './store.ts'

export interface Captured {
  /** By relid. */
  readonly tables: ReadonlyMap<string, FoundTable>
  /** Of realtime.messages. */
  readonly messages: string | undefined
  /** Tables that somebody held on to, so that their triggers could not be switched on yet. */
  readonly held: ReadonlySet<string>
}

export const nothingCaptured: Captured = { tables: new Map(), messages: undefined, held: new Set() }

/** Registers what is wanted, and switches triggers where that is needed. */
export async function capture(
  store: ChangesStore,
  captureSwitch: CaptureSwitch,
  tenant: Tenant,
  subscribers: Iterable<ChangeSubscriber>,
  resting: ReadonlySet<string>,
): Promise<Captured> {
  const wanted = new Map<string, { schema: string; table: string | undefined }>()
  for (const { bindings } of subscribers)
    for (const { schema, table } of bindings)
      if (canBeAsked(schema) && canBeAsked(table ?? ''))
        wanted.set(JSON.stringify([schema, table]), { schema, table })
  const found = await store.findTables([...wanted.values()])
  const relids = found.map(({ relid }) => relid)
  await store.register(relids)
  const wrong = found.filter(({ isWanted, isEnabled }) => isWanted !== isEnabled).map(({ relid }) => relid)
  const isDue = wrong.some(relid => !resting.has(relid))
  const { isDone, held } = isDue
    ? await captureSwitch.adjust(tenant.ref, [...resting])
    : { isDone: wrong.length === 0, held: wrong }
  // Another was at it all the time: none of them can be told to be on.
  const off = isDone || held.length > 0 ? held : wrong
  return {
    tables: new Map(found.map(table => [table.relid, table])),
    messages: found.find(({ schema, name }) => schema === 'realtime' && name === 'messages')?.relid,
    held: new Set(off),
  }
}

/** Whether all that a subscriber wants to hear of can be heard. */
export function flowsFor({ bindings }: ChangeSubscriber, { tables, held, messages }: Captured): boolean {
  for (const relid of held) {
    const table = tables.get(relid)
    if (!table?.isWanted) continue
    if (relid === messages) {
      if (bindings.length === 0) return false
    } else if (bindings.some(each => isOfTable(each, table))) return false
  }
  return true
}

/** Postgres takes neither in JSON, whoever it comes from. */
const canBeAsked = (name: string) => name.isWellFormed() && !name.includes('\0')
