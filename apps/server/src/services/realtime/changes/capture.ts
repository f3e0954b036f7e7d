// Determines which tables of a project are captured: registered in platform.listening, with enabled triggers.

import type { Tenant } from '#src/tenancy/directory.ts'
import type { ChangeSubscriber } from '../subscriber.ts'
import type { CaptureSwitch } from './capture-switch.ts'
import { coversTable } from './matching.ts'
import type { CapturableTable, ChangesStore } from './store.ts'

export interface Captured {
  /** By relid. */
  readonly tables: ReadonlyMap<string, CapturableTable>
  /** The relid of realtime.messages. */
  readonly messages: string | undefined
  /** Tables that another session has locked, so that their triggers could not be switched yet. */
  readonly locked: ReadonlySet<string>
}

export const nothingCaptured: Captured = { tables: new Map(), messages: undefined, locked: new Set() }

/** Registers the tables that subscribers request, and switches triggers where needed. */
export async function capture(
  store: ChangesStore,
  captureSwitch: CaptureSwitch,
  tenant: Tenant,
  subscribers: Iterable<ChangeSubscriber>,
  backedOff: ReadonlySet<string>,
): Promise<Captured> {
  const wanted = new Map<string, { schema: string; table: string | undefined }>()
  for (const { bindings } of subscribers)
    for (const { schema, table } of bindings)
      if (isValidName(schema) && isValidName(table ?? ''))
        wanted.set(JSON.stringify([schema, table]), { schema, table })
  const found = await store.findTables([...wanted.values()])
  const relids = found.map(({ relid }) => relid)
  await store.register(relids)
  const mismatched = found
    .filter(({ isWanted, isEnabled }) => isWanted !== isEnabled)
    .map(({ relid }) => relid)
  const isDue = mismatched.some(relid => !backedOff.has(relid))
  const { isDone, locked } = isDue
    ? await captureSwitch.adjust(tenant.ref, [...backedOff])
    : { isDone: mismatched.length === 0, locked: mismatched }
  // If another node held the advisory lock, none of the triggers is known to be enabled.
  const notCaptured = isDone || locked.length > 0 ? locked : mismatched
  return {
    tables: new Map(found.map(table => [table.relid, table])),
    messages: found.find(({ schema, name }) => schema === 'realtime' && name === 'messages')?.relid,
    locked: new Set(notCaptured),
  }
}

/** Whether all tables that the subscriber requests are captured. */
export function isCapturedFor(
  { bindings }: ChangeSubscriber,
  { tables, locked, messages }: Captured,
): boolean {
  for (const relid of locked) {
    const table = tables.get(relid)
    if (!table?.isWanted) continue
    if (relid === messages) {
      if (bindings.length === 0) return false
    } else if (bindings.some(each => coversTable(each, table))) return false
  }
  return true
}

/** Postgres rejects JSON with NUL or unpaired surrogates, and one such name would fail the whole statement. */
const isValidName = (name: string) => name.isWellFormed() && !name.includes('\0')
