// The key that commands call functions with.
import { ReplyError } from '@plinth/contract/client.ts'
import type { Platform } from '../platform.ts'

export interface Key {
  role: 'service_role' | 'anon'
  value: string
}

export async function anonKey(platform: Platform, id: string): Promise<Key> {
  const { anon_key } = await platform.projects.read({ params: { id } })
  return { role: 'anon', value: anon_key }
}

/** Null if the user may not read it. Reading it needs admin scope, and the server audits it. */
export async function serviceRoleKey(platform: Platform, id: string): Promise<Key | null> {
  try {
    const { service_role_key } = await platform.projects.revealServiceRoleKey({ params: { id } })
    return { role: 'service_role', value: service_role_key }
  } catch (error) {
    if (error instanceof ReplyError && error.code === 'insufficient_scope') return null
    throw error
  }
}
