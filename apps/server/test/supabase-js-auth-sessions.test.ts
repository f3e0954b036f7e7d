// The unmodified client: holding, refreshing, watching and ending a session.
import { refreshTests } from './supabase-js/auth-refreshing.ts'
import { sessionTests } from './supabase-js/auth-sessions.ts'
import { signOutTests } from './supabase-js/auth-signing-out.ts'
import { authSuite } from './supabase-js/auth-suite.ts'
import { watchTests } from './supabase-js/auth-watching.ts'

authSuite('sessions', [sessionTests, refreshTests, watchTests, signOutTests])
