// The unmodified client: accounts and how one gets into them.
import { anonymousTests } from './supabase-js/auth-anonymous.ts'
import { leftOpenTests } from './supabase-js/auth-left-open.ts'
import { provingTests } from './supabase-js/auth-proving.ts'
import { signInTests } from './supabase-js/auth-signing-in.ts'
import { signUpTests } from './supabase-js/auth-signing-up.ts'
import { authSuite } from './supabase-js/auth-suite.ts'

authSuite('accounts', [signUpTests, provingTests, anonymousTests, signInTests, leftOpenTests])
