// The unmodified client: second factors.
import { factorTests } from './supabase-js/auth-factors.ts'
import { authSuite } from './supabase-js/auth-suite.ts'

authSuite('factors', [factorTests])
