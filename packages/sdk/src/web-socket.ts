// supabase-js refuses to be made where there is no WebSocket, such as on Node 20, although only realtime needs one.
import type { SupabaseClientOptions } from '@supabase/supabase-js'

type Transport = NonNullable<NonNullable<SupabaseClientOptions<string>['realtime']>['transport']>

/** @internal */
export function withTransport<SchemaName>(
  options: SupabaseClientOptions<SchemaName> = {},
): SupabaseClientOptions<SchemaName> {
  if (typeof WebSocket !== 'undefined' || options.realtime?.transport) return options
  return { ...options, realtime: { ...options.realtime, transport: missing as unknown as Transport } }
}

function missing(): never {
  throw new Error(
    'This runtime has no WebSocket, which realtime needs: use Node 22 or newer, or pass one as `realtime.transport`',
  )
}
