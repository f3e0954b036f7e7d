// Parses the payload of a join. The payload is untrusted and may have any shape.
import { maxBindings, maxBindingsBytes, maxKeyBytes, reasons } from './limits.ts'
import type { Binding, ChangeEvent } from './subscriber.ts'
import { isObject } from './wire.ts'

export interface JoinConfig {
  readonly isPrivate: boolean
  readonly acksBroadcasts: boolean
  readonly receivesOwnBroadcasts: boolean
  readonly replay: { readonly since: number; readonly limit: number } | undefined
  /** For an empty key the server generates one. */
  readonly presence: { readonly key: string; readonly isEnabled: boolean }
  readonly bindings: readonly Binding[]
  /** JSON text for the reply: each requested entry with its id. */
  readonly echo: string
  /** Why the first invalid entry of `postgres_changes` is invalid. */
  readonly bindingError: string | undefined
  readonly isLegacy: boolean
  readonly token: string | undefined
  /** How long the join waits for capture before it fails. Undefined if the client does not ask to wait. */
  readonly waitMs: number | undefined
  /** Why the join is rejected. */
  readonly refusal: string | undefined
}

const maxReplayed = 25
const defaultWaitMs = 10_000
const maxWaitMs = 60_000

/** `subTopic` may name a table: `<schema>:<table>[:<filter>]`. */
export function joinConfigFrom(
  payload: unknown,
  subTopic: string,
  exposedSchemas: readonly string[],
): JoinConfig {
  const given = isObject(payload) ? payload : {}
  const token = given['access_token'] ?? given['user_token']
  const isLegacy = !isObject(given['config'])
  const config = objectIn(given, 'config')
  const broadcast = objectIn(config, 'broadcast')
  const presence = objectIn(config, 'presence')
  const entries = Array.isArray(config['postgres_changes']) ? config['postgres_changes'] : []
  const isPrivate = isTrue(config['private'])
  const replay = replayFrom(broadcast['replay'])
  // Older clients do not send `enabled` and expect presence.
  const isEnabled =
    isObject(config['presence']) && (presence['enabled'] === undefined || isTrue(presence['enabled']))
  const requested = {
    isPrivate,
    acksBroadcasts: isTrue(broadcast['ack']),
    receivesOwnBroadcasts: isTrue(broadcast['self']),
    replay,
    presence: { key: typeof presence['key'] === 'string' ? presence['key'] : '', isEnabled },
    isLegacy,
    token: typeof token === 'string' ? token : undefined,
    waitMs: waitFrom(objectIn(config, 'postgres_changes_options')),
    refusal: refusalFor(entries, presence['key']),
  }
  if (requested.refusal !== undefined) return { ...requested, ...noBindings }
  if (entries.length > 0) return { ...requested, ...bindingsFrom(entries) }
  const usesOtherFeatures =
    requested.acksBroadcasts ||
    requested.receivesOwnBroadcasts ||
    isEnabled ||
    isPrivate ||
    replay !== undefined
  const implied = usesOtherFeatures ? undefined : bindingFromTopic(subTopic, isLegacy, exposedSchemas)
  return { ...requested, ...noBindings, bindings: implied ? [implied] : [] }
}

const noBindings = { bindings: [], echo: '[]', bindingError: undefined }

/** Bounds the memory that a channel holds. */
function refusalFor(entries: readonly unknown[], key: unknown): string | undefined {
  if (entries.length > maxBindings) return reasons.tooManyBindings
  if (typeof key === 'string' && Buffer.byteLength(key) > maxKeyBytes) return reasons.keyTooLong
  let bytes = 0
  for (const entry of entries)
    for (const value of Object.values(knownFields(entry))) bytes += approximateBytes(value)
  return bytes > maxBindingsBytes ? reasons.bindingsTooLong : undefined
}

/** Counts strings and lists of strings. Any other value makes the entry invalid. */
const approximateBytes = (value: unknown): number =>
  typeof value === 'string'
    ? Buffer.byteLength(value)
    : Array.isArray(value)
      ? value.reduce((sum, each) => sum + 8 + (typeof each === 'string' ? Buffer.byteLength(each) : 0), 0)
      : 0

/** The known fields of an entry. Values that are neither scalar nor a list of strings become `false`, which is invalid. */
function knownFields(entry: unknown): Readonly<Record<string, unknown>> {
  const { event, schema, table, filter, select } = isObject(entry) ? entry : {}
  const fields = { event, schema, table, filter, select }
  for (const [name, value] of Object.entries(fields))
    if (typeof value === 'object' && value !== null && !areStrings(value))
      Object.assign(fields, { [name]: false })
  return fields
}

/** Some clients send booleans as strings. */
const isTrue = (value: unknown) => value === true || value === 'true'
const objectIn = (from: Readonly<Record<string, unknown>>, name: string) => {
  const value = Object.hasOwn(from, name) ? from[name] : undefined
  return isObject(value) ? value : {}
}

function waitFrom({ wait, timeout }: Readonly<Record<string, unknown>>): number | undefined {
  if (!isTrue(wait)) return
  const requested = typeof timeout === 'number' && timeout > 0 ? timeout : defaultWaitMs
  return Math.min(requested, maxWaitMs)
}

function replayFrom(value: unknown): JoinConfig['replay'] {
  if (!isObject(value)) return
  const { since, limit } = value
  if (typeof since !== 'number' || !Number.isFinite(since)) return
  const requested = Number.isInteger(limit) ? (limit as number) : maxReplayed
  return { since, limit: Math.min(maxReplayed, Math.max(1, requested)) }
}

/** Equal entries share an id. Ids depend only on the entries, so that channels with equal entries share encoded frames. */
function bindingsFrom(entries: readonly unknown[]): Pick<JoinConfig, 'bindings' | 'echo' | 'bindingError'> {
  const ids = new Map<string, number>()
  const bindings: Binding[] = []
  const echoed: string[] = []
  let bindingError: string | undefined
  for (const entry of entries) {
    const fields = knownFields(entry)
    const text = JSON.stringify(fields)
    const sameId = ids.get(text)
    const id = sameId ?? ids.size + 1
    echoed.push(text === '{}' ? `{"id":${id}}` : `{"id":${id},${text.slice(1)}`)
    if (sameId !== undefined) continue
    ids.set(text, id)
    const binding = bindingFrom(fields, id)
    if (typeof binding === 'string') bindingError ??= binding
    else bindings.push(binding)
  }
  return { bindings, echo: `[${echoed.join(',')}]`, bindingError }
}

const events: readonly unknown[] = ['INSERT', 'UPDATE', 'DELETE', '*']

function bindingFrom(entry: Readonly<Record<string, unknown>>, id: number): Binding | string {
  const { event, schema, table, filter, select } = entry
  if (!events.includes(event)) return '`event` must be INSERT, UPDATE, DELETE or *'
  if (!isIdentifier(schema)) return '`schema` must be the name of a schema or *'
  if (!isAbsent(table) && !isIdentifier(table)) return '`table` must be the name of a table'
  if (!isAbsent(filter) && !(isStorable(filter) && filter.length <= maxFilter))
    return `\`filter\` must be of the form column=op.value, of at most ${maxFilter} characters`
  if (!isAbsent(select) && !(areStrings(select) && select.length <= maxColumns && select.every(isIdentifier)))
    return '`select` must be a list of names of columns'
  return {
    id,
    event: event as ChangeEvent | '*',
    schema,
    table: table || undefined,
    filter: filter || undefined,
    select: select || undefined,
  }
}

const maxFilter = 10_000
const maxColumns = 1600
const maxName = 63
const isAbsent = (value: unknown): value is null | undefined | '' =>
  value === undefined || value === null || value === ''
/** Postgres text holds neither NUL nor unpaired surrogates. */
const isStorable = (value: unknown): value is string =>
  typeof value === 'string' && !value.includes('\0') && value.isWellFormed()
const isIdentifier = (value: unknown): value is string =>
  isStorable(value) && value !== '' && Buffer.byteLength(value) <= maxName
const areStrings = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every(each => typeof each === 'string')

/** `public:todos:id=eq.1`. A schema alone means all its tables, for legacy clients only. */
function bindingFromTopic(
  subTopic: string,
  isLegacy: boolean,
  exposedSchemas: readonly string[],
): Binding | undefined {
  const [schema = '', table, ...rest] = subTopic.split(':')
  if (!exposedSchemas.includes(schema) && !(isLegacy && schema === '*')) return
  if (!table && !isLegacy) return
  const filter = rest.join(':')
  return {
    id: 1,
    event: '*',
    schema,
    table: table || undefined,
    filter: filter || undefined,
    select: undefined,
  }
}
