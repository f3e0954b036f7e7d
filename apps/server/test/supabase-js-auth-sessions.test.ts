// The unmodified client: sessions, refresh, state changes and sign-out.
import { refreshTests } from './supabase-js/auth-refresh.ts'
import { sessionTests } from './supabase-js/auth-sessions.ts'
import { signOutTests } from './supabase-js/auth-sign-out.ts'
import { stateChangeTests } from './supabase-js/auth-state-changes.ts'
import { authSuite } from './supabase-js/auth-suite.ts'

authSuite('sessions', [sessionTests, refreshTests, stateChangeTests, signOutTests])
