// The unmodified client in both shapes of the URL.
import { createClient, type SupabaseClient } from '@supabase/supabase-js'

export type Storage = SupabaseClient['storage']
export type Files = ReturnType<Storage['from']>

export interface Shape {
  name: string
  /** Base URL of the storage routes of a project. */
  base(url: string, projectId: string): string
  /** A client with this key and, optionally, the JWT of a signed-in user. */
  connect(url: string, projectId: string, key: string, token?: string): Storage
}

const withoutSession = { auth: { persistSession: false, autoRefreshToken: false } }

/** The class of the storage client, which supabase-js does not export. */
const StorageClient = createClient('http://127.0.0.1:1', 'key', withoutSession).storage.constructor as new (
  url: string,
  headers: Record<string, string>,
) => Storage

export const shapes: readonly Shape[] = [
  {
    name: 'createClient at /v1/<project_id>',
    base: (url, projectId) => `${url}/v1/${projectId}/storage/v1`,
    connect: (url, projectId, key, token) =>
      createClient(`${url}/v1/${projectId}`, key, {
        ...withoutSession,
        ...(token !== undefined && { accessToken: async () => token }),
      }).storage,
  },
  {
    name: 'StorageClient at /v1/storage/<project_id>',
    base: (url, projectId) => `${url}/v1/storage/${projectId}`,
    connect: (url, projectId, key, token = key) =>
      new StorageClient(`${url}/v1/storage/${projectId}`, { apikey: key, Authorization: `Bearer ${token}` }),
  },
]
