// What a client asks for when it joins a channel, from whatever it sent.
import { maxBindings, maxKeyBytes, maxWishesBytes, reasons } from './limits.ts'
import type { Binding, ChangeEvent } from './subscriber.ts'
import { isObject } from './wire.ts'

export interface JoinConfig {
  readonly isPrivate: boolean
  readonly acksBroadcasts: boolean
  readonly hearsItself: boolean
  readonly replay: { readonly since: number; readonly limit: number } | undefined
  /** An empty key stands for one of its own. */
  readonly presence: { readonly key: string; readonly isEnabled: boolean }
  readonly bindings: readonly Binding[]
  /** JSON text: each wish as it was sent, with its id. */
  readonly answer: string
  /** A wish that nobody can follow, and why. */
  readonly complaint: string | undefined
  readonly isLegacy: boolean
  readonly token: string | undefined
  /** How long a client waits for changes to flow rather than be told later; undefined if it does not. */
  readonly waitMs: number | undefined
  /** Why there is no joining with this. */
  readonly refusal: string | undefined
}

const mostReplayed = 25
const usualWaitMs = 10_000
const longestWaitMs = 60_000

/** `subTopic` may stand for a table: `<schema>:<table>[:<filter>]`. */
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
  const wishes = Array.isArray(config['postgres_changes']) ? config['postgres_changes'] : []
  const isPrivate = isTrue(config['private'])
  const replay = replayFrom(broadcast['replay'])
  // Clients that do not know the switch have always been told who is there.
  const isEnabled =
    isObject(config['presence']) && (presence['enabled'] === undefined || isTrue(presence['enabled']))
  const asked = {
    isPrivate,
    acksBroadcasts: isTrue(broadcast['ack']),
    hearsItself: isTrue(broadcast['self']),
    replay,
    presence: { key: typeof presence['key'] === 'string' ? presence['key'] : '', isEnabled },
    isLegacy,
    token: typeof token === 'string' ? token : undefined,
    waitMs: waitFrom(objectIn(config, 'postgres_changes_options')),
    refusal: refusalOf(wishes, presence['key']),
  }
  if (asked.refusal !== undefined) return { ...asked, ...nothingAsked }
  if (wishes.length > 0) return { ...asked, ...bindingsFrom(wishes) }
  const wantsMore =
    asked.acksBroadcasts || asked.hearsItself || isEnabled || isPrivate || replay !== undefined
  const implied = wantsMore ? undefined : bindingOfTopic(subTopic, isLegacy, exposedSchemas)
  return { ...asked, ...nothingAsked, bindings: implied ? [implied] : [] }
}

const nothingAsked = { bindings: [], answer: '[]', complaint: undefined }

/** What is kept for as long as a channel lasts is bounded. */
function refusalOf(wishes: readonly unknown[], key: unknown): string | undefined {
  if (wishes.length > maxBindings) return reasons.tooManyBindings
  if (typeof key === 'string' && Buffer.byteLength(key) > maxKeyBytes) return reasons.keyTooLong
  let bytes = 0
  for (const wish of wishes) for (const value of Object.values(known(wish))) bytes += roughBytes(value)
  return bytes > maxWishesBytes ? reasons.wishesTooLong : undefined
}

/** Of texts and of lists of texts; anything else is complained of anyway. */
const roughBytes = (value: unknown): number =>
  typeof value === 'string'
    ? Buffer.byteLength(value)
    : Array.isArray(value)
      ? value.reduce((sum, each) => sum + 8 + (typeof each === 'string' ? Buffer.byteLength(each) : 0), 0)
      : 0

/** The fields of a wish that mean something. What is neither a text nor a list of texts is left out. */
function known(wish: unknown): Readonly<Record<string, unknown>> {
  const { event, schema, table, filter, select } = isObject(wish) ? wish : {}
  const simple = { event, schema, table, filter, select }
  for (const [name, value] of Object.entries(simple))
    if (typeof value === 'object' && value !== null && !areTexts(value))
      Object.assign(simple, { [name]: false })
  return simple
}

/** Booleans may come as texts. */
const isTrue = (value: unknown) => value === true || value === 'true'
const objectIn = (from: Readonly<Record<string, unknown>>, name: string) => {
  const value = Object.hasOwn(from, name) ? from[name] : undefined
  return isObject(value) ? value : {}
}

function waitFrom({ wait, timeout }: Readonly<Record<string, unknown>>): number | undefined {
  if (!isTrue(wait)) return
  const asked = typeof timeout === 'number' && timeout > 0 ? timeout : usualWaitMs
  return Math.min(asked, longestWaitMs)
}

function replayFrom(value: unknown): JoinConfig['replay'] {
  if (!isObject(value)) return
  const { since, limit } = value
  if (typeof since !== 'number' || !Number.isFinite(since)) return
  const asked = Number.isInteger(limit) ? (limit as number) : mostReplayed
  return { since, limit: Math.min(mostReplayed, Math.max(1, asked)) }
}

/** Equal wishes share an id, which depends on nothing else, so that channels with the same wishes get the same frames. */
function bindingsFrom(wishes: readonly unknown[]): Pick<JoinConfig, 'bindings' | 'answer' | 'complaint'> {
  const ids = new Map<string, number>()
  const bindings: Binding[] = []
  const answers: string[] = []
  let complaint: string | undefined
  for (const wish of wishes) {
    const fields = known(wish)
    const text = JSON.stringify(fields)
    const sameId = ids.get(text)
    const id = sameId ?? ids.size + 1
    answers.push(text === '{}' ? `{"id":${id}}` : `{"id":${id},${text.slice(1)}`)
    if (sameId !== undefined) continue
    ids.set(text, id)
    const binding = bindingFrom(fields, id)
    if (typeof binding === 'string') complaint ??= binding
    else bindings.push(binding)
  }
  return { bindings, answer: `[${answers.join(',')}]`, complaint }
}

const events: readonly unknown[] = ['INSERT', 'UPDATE', 'DELETE', '*']

function bindingFrom(wish: Readonly<Record<string, unknown>>, id: number): Binding | string {
  const { event, schema, table, filter, select } = wish
  if (!events.includes(event)) return '`event` must be INSERT, UPDATE, DELETE or *'
  if (!isName(schema)) return '`schema` must be the name of a schema or *'
  if (!isAbsent(table) && !isName(table)) return '`table` must be the name of a table'
  if (!isAbsent(filter) && !(isStorable(filter) && filter.length <= maxFilter))
    return `\`filter\` must be of the form column=op.value, of at most ${maxFilter} characters`
  if (!isAbsent(select) && !(areTexts(select) && select.length <= maxColumns && select.every(isName)))
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
/** Postgres has no place for a NUL, nor for half a character. */
const isStorable = (value: unknown): value is string =>
  typeof value === 'string' && !value.includes('\0') && value.isWellFormed()
const isName = (value: unknown): value is string =>
  isStorable(value) && value !== '' && Buffer.byteLength(value) <= maxName
const areTexts = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every(each => typeof each === 'string')

/** `public:todos:id=eq.1`; a schema alone stands for all its tables where nothing else can be meant. */
function bindingOfTopic(
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
