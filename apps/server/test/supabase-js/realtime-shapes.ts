// The unmodified client in both URL forms, both protocol versions and both WebSocket implementations.
import {
  createClient,
  type RealtimeChannel,
  RealtimeClient,
  type RealtimeClientOptions,
  type SupabaseClient,
  type WebSocketLikeConstructor,
} from '@supabase/supabase-js'
import { WebSocket } from 'ws'

export type Realtime = RealtimeClient
export type Channel = RealtimeChannel
export type Options = RealtimeClientOptions
export type Auth = SupabaseClient['auth']

export interface Shape {
  name: string
  vsn: '1.0.0' | '2.0.0'
  /** The base URL of the realtime HTTP routes. */
  base(url: string, projectId: string): string
  connect(url: string, projectId: string, key: string, options?: Options): Realtime
  /** A realtime client and the auth client that holds its session. */
  signedIn(url: string, projectId: string, key: string, options?: Options): { realtime: Realtime; auth: Auth }
}

const inMemory = { auth: { persistSession: false, autoRefreshToken: false } }

const leaving: (() => void)[] = []
/** Disconnects every client. */
export function disconnectAll(): void {
  for (const leave of leaving.splice(0)) leave()
}

/** Creates a client that `disconnectAll` disconnects. */
export function tracked<T extends { realtime: Realtime }>(
  options: Options,
  make: (options: Options) => T,
): T {
  const { reconnectAfterMs } = options
  let hasLeft = false
  // A client that disconnects while it replaces a connection would reconnect for ever.
  const patience = reconnectAfterMs && {
    reconnectAfterMs: (tries: number) => (hasLeft ? 3_600_000 : reconnectAfterMs(tries)),
  }
  const made = make({ ...options, ...patience })
  leaving.push(() => {
    hasLeft = true
    void made.realtime.disconnect()
  })
  return made
}

function supabaseShape(name: string, vsn: Shape['vsn'], fixed: Options = {}): Shape {
  const create = (url: string, projectId: string, key: string, given: Options = {}) =>
    tracked({ vsn, ...fixed, ...given }, realtime =>
      createClient(`${url}/v1/${projectId}`, key, { ...inMemory, realtime }),
    )
  return {
    name,
    vsn,
    base: (url, projectId) => `${url}/v1/${projectId}/realtime/v1`,
    connect: (...given) => create(...given).realtime,
    signedIn(...given) {
      const { realtime, auth } = create(...given)
      return { realtime, auth }
    },
  }
}

const connectNative: Shape['connect'] = (url, projectId, key, given = {}) =>
  tracked(given, options => ({
    realtime: new RealtimeClient(`${url.replace(/^http/, 'ws')}/v1/realtime/${projectId}/socket`, {
      ...options,
      params: { apikey: key, ...options.params },
    }),
  })).realtime

export const newest = supabaseShape('createClient at /v1/<project_id>', '2.0.0')

export const oldest = supabaseShape('createClient with vsn 1.0.0, over ws', '1.0.0', {
  transport: WebSocket as unknown as WebSocketLikeConstructor,
})

export const native: Shape = {
  name: 'RealtimeClient at /v1/realtime/<project_id>/socket',
  vsn: '2.0.0',
  base: (url, projectId) => `${url}/v1/realtime/${projectId}`,
  connect: connectNative,
  signedIn(url, projectId, key, options) {
    const { auth } = createClient(`${url}/v1/${projectId}`, key, inMemory)
    const accessToken = async () => (await auth.getSession()).data.session?.access_token ?? key
    const realtime = connectNative(url, projectId, key, { ...options, accessToken })
    // Without createClient, the application has to pass on new tokens.
    auth.onAuthStateChange(() => void realtime.setAuth())
    return { realtime, auth }
  },
}

export const shapes: readonly Shape[] = [newest, oldest, native]
