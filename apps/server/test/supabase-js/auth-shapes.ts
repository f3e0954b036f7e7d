// The unmodified client in both shapes of the URL, each with its own storage.
import { AuthClient, createClient } from '@supabase/supabase-js'

export type Auth = InstanceType<typeof AuthClient>

export interface ClientOptions {
  flow?: 'implicit' | 'pkce'
  /** The anon key by default. */
  key?: string
  storage?: Storage
  throwOnError?: boolean
  /** Allows several concurrent browser sign-ins, each with its own flow id. */
  keepsFlowsApart?: boolean
}

export interface Shape {
  name: string
  /** Base URL of the auth routes of a project. */
  base(url: string, projectId: string): string
  connect(url: string, projectId: string, key: string, options: ClientOptions): Auth
}

const settingsOf = ({
  flow = 'implicit',
  storage = inMemory(),
  throwOnError = false,
  keepsFlowsApart = false,
}: ClientOptions) => ({
  flowType: flow,
  storage,
  throwOnError,
  experimental: { appendPkceFlowIdToRedirects: keepsFlowsApart },
  persistSession: true,
  autoRefreshToken: false,
})

export const shapes: readonly Shape[] = [
  {
    name: 'createClient at /v1/<project_id>',
    base: (url, projectId) => `${url}/v1/${projectId}/auth/v1`,
    connect: (url, projectId, key, options) =>
      createClient(`${url}/v1/${projectId}`, key, { auth: settingsOf(options) }).auth,
  },
  {
    name: 'AuthClient at /v1/auth/<project_id>',
    base: (url, projectId) => `${url}/v1/auth/${projectId}`,
    connect: (url, projectId, key, options) =>
      new AuthClient({
        url: `${url}/v1/auth/${projectId}`,
        headers: { apikey: key, Authorization: `Bearer ${key}` },
        ...settingsOf(options),
      }),
  },
]

export interface Storage {
  values: Map<string, string>
  getItem(key: string): string | null
  setItem(key: string, value: string): void
  removeItem(key: string): void
}

/** Replaces a browser's local storage. */
export function inMemory(): Storage {
  const values = new Map<string, string>()
  return {
    values,
    getItem: key => values.get(key) ?? null,
    setItem: (key, value) => void values.set(key, value),
    removeItem: key => void values.delete(key),
  }
}
