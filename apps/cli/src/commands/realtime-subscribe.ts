import { setTimeout as sleep } from 'node:timers/promises'
import { resolveProject, resolveTarget, resolveToken, type Target } from '../connection.ts'
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { serverVersion } from '../health.ts'
import { connect, warnAboutTarget } from '../platform.ts'
import { clean, type Paint } from '../print.ts'
import { idOf, isId } from '../project.ts'
import { type ChannelOptions, runChannel } from '../realtime/channel.ts'
import { channelName } from '../realtime/channel-name.ts'
import { projectCredential } from '../realtime/credential.ts'
import type { Message } from '../realtime/messages.ts'

/** Errors after which the subscription still works. */
const isTemporary = /^Changes (are deferred|may have been lost)/
/** Seconds before each attempt to reconnect; the last one repeats. */
const reconnectSeconds = [1, 2, 5, 10]

export async function subscribe(context: Context): Promise<Answer> {
  const { given, screen } = context
  const channel = channelName(given.values['channel']!)
  const credential = projectCredential(context)
  const target = resolveTarget(context)
  warnAboutTarget(target, context)
  const project = await subscribedProject(context, target)
  askVersion(context, target)

  let isSubscribed = false
  const onMessage = (message: Message) => {
    const { event, payload } = message
    if (event === 'system' && payload['extension'] === 'postgres_changes') {
      if (payload['status'] === 'ok') isSubscribed = true
      else if (channel.isTable && !isSubscribed && !isTemporary.test(String(payload['message'])))
        throw subscriptionRefused(String(payload['message']))
    }
    print(message, context)
  }
  const signal = context.interruption()
  const query = new URLSearchParams({ token: credential, vsn: '2.0.0' })
  const options: ChannelOptions = {
    url: `${target.connectUrl}/v1/realtime/${project}/socket/websocket?${query}`,
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
    onJoined: () => screen.step(`Joined ${clean(channel.topic)}. Press Ctrl-C to end.`),
    onMessage,
  }
  await runWithReconnects(options, context)
  return { data: null, text: () => '', wasStreamed: true }
}

/** Runs until it is interrupted. A failure before the first join ends the command, because the user is waiting for it. */
async function runWithReconnects(options: ChannelOptions, { screen }: Context): Promise<void> {
  let hasJoined = false
  let failures = 0
  for (;;) {
    const loss = await runChannel(options)
    if (!loss) return
    if (loss.wasJoined) failures = 0
    hasJoined ||= loss.wasJoined
    if (!hasJoined) throw loss.error
    const seconds = reconnectSeconds[Math.min(failures++, reconnectSeconds.length - 1)]!
    const why = loss.error.message.replace(/\.$/, '')
    screen.warn(`${clean(why)}. Reconnecting in ${seconds} s; changes until then are missed.`)
    await sleep(seconds * 1000, undefined, { signal: options.signal }).catch(() => {})
    if (options.signal.aborted) return
  }
}

/** An id needs no platform token; a slug is looked up with one. */
async function subscribedProject(context: Context, target: Target): Promise<string> {
  const named = resolveProject(context, target)?.value
  if (named && isId(named)) return named.toLowerCase()
  if (named && resolveToken(context, target)) return idOf(named, connect(context, target))
  throw new Failure(
    'project_missing',
    named ? `"${named}" is not an id, and looking up a slug needs PLATFORM_TOKEN.` : 'No project is given.',
    'Give it by its id with --project, PLATFORM_PROJECT, or plinth config set project <id>.',
  )
}

function askVersion(context: Context, target: Target): void {
  const abort = new AbortController()
  context.connection ??= {
    url: target.url,
    serverVersion: serverVersion(target.connectUrl, abort.signal),
    abandon: () => abort.abort(),
  }
}

const subscriptionRefused = (message: string) =>
  new Failure(
    'subscription_refused',
    `The platform rejected the subscription: ${message.replace(/\.$/, '')}.`,
    'plinth realtime tables shows which tables emit changes.',
  )

function print({ event, payload }: Message, { screen }: Context): void {
  if (event === 'postgres_changes') {
    const change = changeIn(payload['data'])
    screen.item({ data: { kind: 'change', ...change }, text: paint => changeLine(paint, change) })
  } else if (event === 'broadcast') {
    const { event: name = null, payload: content = null, bytes = null } = payload
    const data = { kind: 'broadcast', event: name, payload: content, bytes_base64: bytes }
    const shown = bytes === null ? JSON.stringify(content) : `${bytes} (base64)`
    screen.item({ data, text: paint => `${paint.bold('broadcast')}  ${clean(`${name}  ${shown}`)}` })
  } else if (event === 'system') {
    const { status, message, extension } = payload
    if (screen.format === 'json') screen.item({ data: { kind: 'system', status, message, extension } })
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
  const fields = (typeof data === 'object' && data !== null ? data : {}) as Record<string, unknown>
  return {
    schema: fields['schema'] ?? null,
    table: fields['table'] ?? null,
    commit_timestamp: fields['commit_timestamp'] ?? null,
    eventType: fields['eventType'] ?? fields['type'] ?? null,
    new: fields['new'] ?? fields['record'] ?? null,
    old: fields['old'] ?? fields['old_record'] ?? null,
    columns: fields['columns'] ?? [],
    errors: fields['errors'] ?? null,
  }
}

function changeLine(paint: Paint, change: Change): string {
  const rows = [change.old, change.new].filter(row => row !== null).map(row => JSON.stringify(row))
  const errors = Array.isArray(change.errors) ? `  (${change.errors.join(', ')})` : ''
  const at = paint.dim(clean(String(change.commit_timestamp)))
  const what = paint.bold(clean(String(change.eventType).padEnd(6)))
  return `${at}  ${what}  ${clean(`${change.schema}.${change.table}  ${rows.join(' -> ')}${errors}`)}`
}
