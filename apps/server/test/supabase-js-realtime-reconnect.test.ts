// The unmodified client: connections that are cut or held, and a server that ends.
import { endingServerTests, reconnectTests } from './supabase-js/realtime-reconnects.ts'
import { realtimeSuite } from './supabase-js/realtime-suite.ts'

realtimeSuite('reconnect', [reconnectTests], [endingServerTests])
