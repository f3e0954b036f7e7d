import { setTimeout as sleep } from 'node:timers/promises'
import { resolveProject, resolveTarget, resolveToken, type Target } from '../connection.ts'
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { serverVersion } from '../health.ts'
import { interruption } from '../interruption.ts'
import { connect, remarkOn } from '../platform.ts'
import { clean, type Paint } from '../print.ts'
import { idOf, isId } from '../project.ts'
import { attend, type Loss, type Wish } from '../realtime/attendance.ts'
import { channelName } from '../realtime/channel-name.ts'
import { projectCredential } from '../realtime/credential.ts'
import type { Message } from '../realtime/messages.ts'

/** Said of changes that come later, or may have been missed. */
const isPassing = /^Changes (are deferred|may have been lost)/
/** Seconds until the next attempt; the last is for all that follow. */
const waits = [1, 2, 5, 10]

export async function subscribe(context: Context): Promise<Answer> {
  const { given, screen } = context
  const channel = channelName(given.values['channel']!)
  const credential = projectCredential(context)
  const target = resolveTarget(context)
  remarkOn(target, context)
  const project = await projectIn(context, target)
  introduce(context, target)

  let hears = false
  const hear = (message: Message) => {
    const { event, payload } = message
    if (event === 'system' && payload['extension'] === 'postgres_changes') {
      if (payload['status'] === 'ok') hears = true
      else if (channel.isTable && !hears && !isPassing.test(String(payload['message'])))
        throw notSent(String(payload['message']))
    }
    show(message, context)
  }
  const signal = interruption()
  const query = new URLSearchParams({ token: credential, vsn: '2.0.0' })
  const wish: Wish = {
    url: `${target.dial}/v1/realtime/${project}/socket/websocket?${query}`,
    topic: channel.topic,
    join: {
      config: {
        broadcast: { ack: false, self: false },
        presence: { key: '', enabled: false },
        postgres_changes: channel.table ? [{ event: '*', ...channel.table }] : [],
        private: given.switches.has('private'),
      },
      access_token: credential,
    },
    signal,
    joined: () => screen.step(`Joined ${clean(channel.topic)}; Ctrl-C ends.`),
    hear,
  }
  await attendAgainAndAgain(wish, context)
  return { data: null, text: () => '', wasStreamed: true }
}

/** Until it is interrupted. What fails before the first join is for whoever has just typed the command. */
async function attendAgainAndAgain(wish: Wish, { screen }: Context): Promise<void> {
  let hasJoined = false
  let failures = 0
  for (;;) {
    const loss: Loss | null = await attend(wish)
    if (!loss) return
    if (loss.wasJoined) failures = 0
    hasJoined ||= loss.wasJoined
    if (!hasJoined) throw loss.error
    const seconds = waits[Math.min(failures++, waits.length - 1)]!
    const why = loss.error.message.replace(/\.$/, '')
    screen.warn(`${clean(why)}. Trying again in ${seconds} s; what happens until then is not seen.`)
    await sleep(seconds * 1000, undefined, { signal: wish.signal }).catch(() => {})
    if (wish.signal.aborted) return
  }
}

/** By its id it needs no token of the platform; a slug is looked up with one. */
async function projectIn(context: Context, target: Target): Promise<string> {
  const named = resolveProject(context, target)?.value
  if (named && isId(named)) return named.toLowerCase()
  if (named && resolveToken(context, target)) return idOf(named, connect(context, target))
  throw new Failure(
    'project_missing',
    named
      ? `"${named}" is no id, and without PLATFORM_TOKEN slugs cannot be looked up.`
      : 'No project is named.',
    'Name one by its id: with --project, PLATFORM_PROJECT, or plinth config set project <id>.',
  )
}

function introduce(context: Context, target: Target): void {
  const abort = new AbortController()
  context.connection ??= {
    url: target.url,
    serverVersion: serverVersion(target.dial, abort.signal),
    abandon: () => abort.abort(),
  }
}

const notSent = (message: string) =>
  new Failure(
    'subscription_refused',
    `The changes cannot be had: ${message.replace(/\.$/, '')}.`,
    'plinth realtime tables shows which tables send changes.',
  )

function show({ event, payload }: Message, { screen }: Context): void {
  if (event === 'postgres_changes') {
    const change = changeIn(payload['data'])
    screen.piece({ data: { kind: 'change', ...change }, text: paint => changeLine(paint, change) })
  } else if (event === 'broadcast') {
    const { event: name = null, payload: content = null, bytes = null } = payload
    const data = { kind: 'broadcast', event: name, payload: content, bytes_base64: bytes }
    const said = bytes === null ? JSON.stringify(content) : `${bytes} (base64)`
    screen.piece({ data, text: paint => `${paint.bold('broadcast')}  ${clean(`${name}  ${said}`)}` })
  } else if (event === 'system') {
    const { status, message, extension } = payload
    if (screen.format === 'json') screen.piece({ data: { kind: 'system', status, message, extension } })
    else if (status === 'ok') screen.step(clean(String(message)))
    else screen.warn(clean(String(message)))
  }
}

interface Change {
  schema: unknown
  table: unknown
  commit_timestamp: unknown
  eventType: unknown
  new: unknown
  old: unknown
  columns: unknown
  errors: unknown
}

function changeIn(data: unknown): Change {
  const said = (typeof data === 'object' && data !== null ? data : {}) as Record<string, unknown>
  return {
    schema: said['schema'] ?? null,
    table: said['table'] ?? null,
    commit_timestamp: said['commit_timestamp'] ?? null,
    eventType: said['eventType'] ?? said['type'] ?? null,
    new: said['new'] ?? said['record'] ?? null,
    old: said['old'] ?? said['old_record'] ?? null,
    columns: said['columns'] ?? [],
    errors: said['errors'] ?? null,
  }
}

function changeLine(paint: Paint, change: Change): string {
  const rows = [change.old, change.new].filter(row => row !== null).map(row => JSON.stringify(row))
  const errors = Array.isArray(change.errors) ? `  (${change.errors.join(', ')})` : ''
  const at = paint.dim(clean(String(change.commit_timestamp)))
  const what = paint.bold(clean(String(change.eventType).padEnd(6)))
  return `${at}  ${what}  ${clean(`${change.schema}.${change.table}  ${rows.join(' -> ')}${errors}`)}`
}
