// supabase-js throws on creation if there is no WebSocket, as on Node 20, although only realtime needs one.
import type { SupabaseClientOptions } from '@supabase/supabase-js'

type Transport = NonNullable<NonNullable<SupabaseClientOptions<string>['realtime']>['transport']>

/** @internal */
export function withTransport<SchemaName>(
  options: SupabaseClientOptions<SchemaName> = {},
): SupabaseClientOptions<SchemaName> {
  if (typeof WebSocket !== 'undefined' || options.realtime?.transport) return options
  return {
    ...options,
    realtime: { ...options.realtime, transport: throwNoWebSocket as unknown as Transport },
  }
}

function throwNoWebSocket(): never {
  throw new Error(
    'This runtime has no WebSocket, which realtime needs. Use Node 22 or newer, or pass one as `realtime.transport`',
  )
}
