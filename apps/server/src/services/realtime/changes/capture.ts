// Which tables of a project are captured: registered as listened to, with their triggers on.
import type { CaptureSwitch } from '#src/tenancy/capture-switch.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { ChangeSubscriber } from '../subscriber.ts'
import type { ChangesStore, FoundTable } from './store.ts'

export interface Captured {
  /** By relid. */
  readonly tables: ReadonlyMap<string, FoundTable>
  /** Of realtime.messages. */
  readonly messages: string | undefined
  /** Whether somebody held on to a table, so that it could not be switched yet. */
  readonly isComplete: boolean
}

export const nothingCaptured: Captured = { tables: new Map(), messages: undefined, isComplete: true }

/** Registers what is wanted, and switches triggers where that is needed. */
export async function capture(
  store: ChangesStore,
  captureSwitch: CaptureSwitch,
  tenant: Tenant,
  subscribers: Iterable<ChangeSubscriber>,
): Promise<Captured> {
  const wanted = new Map<string, { schema: string; table: string | undefined }>()
  for (const { bindings } of subscribers)
    for (const { schema, table } of bindings)
      if (canBeAsked(schema) && canBeAsked(table ?? '')) wanted.set(`${schema} ${table}`, { schema, table })
  const found = await store.findTables([...wanted.values()])
  const relids = found.map(({ relid }) => relid)
  await store.register(relids)
  const isOff = found.some(({ isWanted, isEnabled }) => isWanted !== isEnabled)
  const { isDone } = isOff ? await captureSwitch.adjust(tenant.ref) : { isDone: true }
  return {
    tables: new Map(found.map(table => [table.relid, table])),
    messages: found.find(({ schema, name }) => schema === 'realtime' && name === 'messages')?.relid,
    isComplete: isDone,
  }
}

/** Postgres takes neither in JSON, whoever it comes from. */
const canBeAsked = (name: string) => name.isWellFormed() && !name.includes('\0')
